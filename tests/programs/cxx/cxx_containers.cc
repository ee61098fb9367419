/* cxx_containers.cc: an ordinary C++ program: a map of strings, vectors that grow, sorting,
 * streams, and a few threads one after the other.
 *
 * The judge (counting_preload.c, a preloaded library) counts the blocks exactly. The program
 * allocates at least 30,000 blocks; `runtime` stands for the further blocks, whose number depends
 * on the C++ library.
 *
 * @allocated_blocks 30000 + runtime
 * @ghost_frees      0
 */
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

int main()
{
    std::map<std::string, std::vector<int>> index;
    for (int i = 0; i < 10000; i++) {
        std::ostringstream key;
        key << "a key that does not fit into the small string " << i % 997;
        index[key.str()].push_back(i);
    }
    std::size_t sum = 0;
    for (int n = 0; n < 4; n++) {
        std::thread([&] {
            std::unordered_map<int, std::shared_ptr<std::string>> local;
            for (int i = 0; i < 5000; i++) {
                local[i * 7] = std::make_shared<std::string>(std::to_string(i) + " and enough text to leave the object");
            }
            for (const auto &entry : local) {
                sum += entry.second->size();
            }
        }).join();
    }
    for (auto &entry : index) {
        std::stable_sort(entry.second.begin(), entry.second.end(), std::greater<int>());
        sum += static_cast<std::size_t>(entry.second.front());
    }
    std::cout << index.size() << ' ' << sum << std::endl;
    return 0;
}
