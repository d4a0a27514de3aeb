// Messages along given routes as flows of SimGrid: prints a JSON object of their simulated and processor time.
//
//     g++ -O2 -o flows peer_simgrid_flows.cpp -lsimgrid && ./flows flows.txt
//
// The file has the number of nodes and of links; bandwidth (bytes/s) and latency (s) of each link; the number of
// messages; and for each message source, destination, bytes, the number of its links and these. All are sent at
// once. Links are shared as flows (CM02), without the corrections for TCP.
#include <ctime>
#include <fstream>
#include <iostream>
#include <map>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

struct Message {
    int source, destination;
    double bytes;
};

int main(int argc, char** argv) {
    sg4::Engine engine(&argc, argv);
    for (const char* setting : {"network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:0"})
        sg4::Engine::set_config(setting);
    std::ifstream file(argv[1]);
    int n_nodes, n_links, n_messages;
    file >> n_nodes >> n_links;
    auto* zone = sg4::create_full_zone("network");
    std::vector<sg4::Host*> hosts;
    std::vector<sg4::Link*> links;
    for (int i = 0; i < n_nodes; ++i) hosts.push_back(zone->create_host("node" + std::to_string(i), 1e9));
    for (int i = 0; i < n_links; ++i) {
        double bandwidth, latency;
        file >> bandwidth >> latency;
        links.push_back(zone->create_link("link" + std::to_string(i), bandwidth)->set_latency(latency)->seal());
    }
    file >> n_messages;
    std::vector<Message> messages(n_messages);
    std::map<std::pair<int, int>, bool> routed;
    for (auto& message : messages) {
        int n_hops, link;
        file >> message.source >> message.destination >> message.bytes >> n_hops;
        std::vector<sg4::LinkInRoute> route;
        for (int i = 0; i < n_hops; ++i) {
            file >> link;
            route.emplace_back(links[link]);
        }
        if (routed[{message.source, message.destination}]) continue;
        routed[{message.source, message.destination}] = true;
        zone->add_route(hosts[message.source]->get_netpoint(), hosts[message.destination]->get_netpoint(), nullptr,
                        nullptr, route, false);
    }
    zone->seal();
    sg4::Actor::create("all", hosts[0], [&] {
        std::vector<sg4::CommPtr> sent;
        for (const auto& message : messages)
            sent.push_back(sg4::Comm::sendto_async(hosts[message.source], hosts[message.destination],
                                                   static_cast<uint64_t>(message.bytes)));
        for (auto& comm : sent) comm->wait();
    });
    const std::clock_t begin = std::clock();
    engine.run();
    std::cout << "{\"seconds\": " << sg4::Engine::get_clock()
              << ", \"cpu\": " << double(std::clock() - begin) / CLOCKS_PER_SEC << "}\n";
}
